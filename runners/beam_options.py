"""Beam's pipeline options without a new argument parser at each access."""

from typing import TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)


class CachedViewOptions(PipelineOptions):
    """Pipeline options that create each view only once.

    Beam accesses its options about ten times per transform, and each `view_as` builds and runs a
    new argument parser: more than half of the time that building a graph takes. A view holds only
    a reference to the values, which all views share.
    """

    def view_as(self, cls: type[View]) -> View:
        """Return the same view for the same class."""
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: View = views[cls]
        return view
