"""The objects of one cluster from informers, a listing or files, and what all callers ask of them."""
