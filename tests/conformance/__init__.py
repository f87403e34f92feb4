"""Runs vectors of a directory laid out like the golden cassette data through the public functions."""
