"""The blind test, in parts: settings drawn from the hash of a commit, and how the bands of that commit fared."""
