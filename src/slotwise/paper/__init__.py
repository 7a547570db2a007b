"""The paper: its experiments, its claims, and the report that compares them.

`experiments` defines what is trained and `figures` what is drawn. `claims` judges the paper's claims by their
rules, with the tolerances in `criteria`, on the curves in `evidence`. `reproduction` trains in a folder;
`report_page` writes the report. `published` has the full-length runs that the package contains; a quick look
trains their `beginnings` again.
"""
