"""The main job: quantize, validate, check and build, with all files and one report in a folder."""
