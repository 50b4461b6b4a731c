"""A study of speculative decoding with a real model: SmolLM2-135M-Instruct on one thread. ``make study`` runs it.

    python -m study estimate    what is still to be measured, and for how long (estimate.py)
    python -m study models      make the model files (models.py)
    python -m study identity    plain and speculative greedy texts, token for token (identity.py)
    python -m study cells       speeds of all targets and drafts, and the cost model beside them (cells.py, steps.py)
    python -m study compare     sample-and-compare beside rejection on the same rows (compare.py)
    python -m study depth       which property of a draft sets its cost (depth.py)
    python -m study report      documents, tables and plots from what was measured (report.py, tables.py, plots.py)
    python -m study all         everything; what an earlier run has finished is not measured again

What is measured is listed in grid.py; --repeats N makes less or more of it, --only TARGET a part, which `all` does not
publish. Every part appends a line to a file under .work/study as soon as it has one (store.py), so a run that was
stopped goes on, unless the machine or a version is another one (origin.py). Only `report` and `all` write into the
repository, and neither replaces the results of another plan. `report` wants the --repeats of the run.
"""
