"""The report: one HTML file that shows a finished dataset, with a sample of its records.

`page.render` puts it together. Numbers come from the manifest and the indexes; what is drawn or
plotted of the records themselves comes from a sample, which is the same each time (`sampling`).
"""
