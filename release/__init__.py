"""What a release is made of: wheel, source distribution, bill of materials and checksums of one commit.

``python -m release`` writes them into ``dist/``; docs/releasing.md has the steps around it. Nothing of this is part of
what is released.
"""
