"""Near duplicates: hashes of images and texts, their matches, and groups of matching records."""
