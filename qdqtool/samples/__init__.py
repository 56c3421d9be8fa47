"""The samples that are fed to a model: read from files, taken from Python data, or random with a seed.

``request.py`` opens the data that a user names and returns ``Feeds`` (``feeds.py``). Before anything runs, each sample
is checked against the inputs of the model. ``readers`` has a module for each kind of file. ``media`` (optional) turns
images, sound and text into arrays. ``split.py`` divides samples into selection samples and hold-out samples.

In: paths, arrays, iterables, preprocessing options. Out: ``Sample`` objects, one for each run, with digests.

Read next: ``signature.py`` for the inputs of a model, then ``readers/npz.py``.
"""
