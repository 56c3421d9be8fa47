"""The main job as a whole: quantize, validate, check and build, with all files and one report in a folder."""
