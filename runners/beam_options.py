"""Beam's options, without an argument parser for each look at them."""

from typing import TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)


class QuickOptions(PipelineOptions):
    """Options of which each view is made once.

    Beam looks at its options some ten times per transform, and each `view_as` fills and runs a
    parser of its own: more than half of the time that building a graph takes. A view holds nothing
    but a reference to the values, which all views share.
    """

    def view_as(self, cls: type[View]) -> View:
        """The same view for the same class."""
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: View = views[cls]
        return view
