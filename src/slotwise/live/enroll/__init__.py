"""Enrolment: keys, passwords and access rules, so that a broker lets in whom it should and as whom it should.

`folder` writes and changes the files of an enrolment; the other modules say what is in them.
"""
