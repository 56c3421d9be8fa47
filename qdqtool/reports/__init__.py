"""Show reports as text, one HTML page, JSON, SARIF or Markdown.

``text`` prints each kind of report with a function from ``RENDERERS``. ``json.py`` renders any report. ``findings`` has
the formats of ``validate``. ``saved`` reads saved JSON reports, and ``page`` makes one HTML page of them. ``kinds``
makes content for both terminal and page, as tables, facts and lines of ``blocks.py``. ``schemas`` keeps the JSON Schema
of each report and file. Reports are defined beside the code that makes them: this package only reads them.

In: report objects of :mod:`qdqtool.jobs`, or files of saved reports. Out: strings and files.

Read next: ``blocks.py``, then ``terminal.py``, which lays tables out; then one module of ``text``.
"""
