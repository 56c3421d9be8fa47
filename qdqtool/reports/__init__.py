"""How a report is shown: as text, one HTML page, JSON, SARIF or Markdown.

``text`` has a module for each kind of report, with a function ``render``; ``json.py`` renders any report. ``findings``
has the formats of ``validate``. ``saved`` reads JSON reports again, and ``page`` makes one HTML page of them.
``schemas`` keeps the JSON Schema of each report and file. Reports themselves are defined beside the code that makes
them: this package only reads them.

In: report objects of :mod:`qdqtool.jobs`, or files of saved reports. Out: strings and files.

Read next: ``terminal.py``, which makes tables and escapes names; then one module of ``text``.
"""
