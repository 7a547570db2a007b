"""Recommendation of a schedule, group size and delay: `search.recommend`.

`candidates` rules out what the exact schedule shows to be worse, `halving` is the pure logic of the search,
`search` trains pilots, `metric` judges them, `answer` holds the result, and `summary` writes and draws it.
"""
