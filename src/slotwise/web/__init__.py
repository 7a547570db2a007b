"""Web pages: the explorer, the results browser, the page of a live run, and a timeline in a notebook.

Modules that need starlette and uvicorn (the extra ``web``) are imported only by what serves a page.
"""
