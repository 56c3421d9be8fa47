"""Which samples are fed to a model: from files, Python data, or seeded noise.

``request.py`` opens what a user names and gives ``Feeds`` (``feeds.py``), which checks each sample against the inputs
of the model before anything runs. ``readers`` has a module for each kind of file. ``media`` turns images, sound and
text into arrays; it is optional. ``split.py`` divides samples into those that choose and those that measure.

In: paths, arrays, iterables, preprocessing options. Out: ``Sample`` objects, one for each run, with digests.

Read next: ``signature.py`` for the inputs of a model, then ``readers/npz.py``.
"""
