"""Recommendation of a schedule, group size and delay: `search.recommend`.

`candidates` lists the runs to choose from, `extrapolation` and `metric` judge a curve, `elimination` is the
pure logic of the search, `pilots` trains, `answer` holds the result, and `summary` writes and draws it.
"""
