import pickle

from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

from recordmill.runners.beam_options import CachedViewOptions


def test_a_view_is_made_once_and_shares_the_values():
    options = CachedViewOptions(["--direct_num_workers=3", "--streaming"])
    view = options.view_as(DirectOptions)
    assert (view.direct_num_workers, options.view_as(StandardOptions).streaming) == (3, True)
    assert options.view_as(DirectOptions) is view
    view.direct_num_workers = 5
    assert options.get_all_options()["direct_num_workers"] == 5
    copy = pickle.loads(pickle.dumps(options))
    assert copy.view_as(DirectOptions).direct_num_workers == 5
