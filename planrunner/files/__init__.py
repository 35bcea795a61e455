"""How files are and putting them back: patterns, walks, paths below an open folder, changes, snapshots, diffs."""
