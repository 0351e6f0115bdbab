"""CEL by Google's C++ engine, where it can be had (the extra ``cel-cpp``) and where it says what Kubernetes says.

C++ is the fast lane, not a second opinion: an expression that needs a function written in
Python (Kubernetes' libraries), a type that C++ lacks or a place where it differs from
cel-go goes to :mod:`~gangctl.policy.cel.python_engine`, and so does one that ends with an
error in C++, for the exact error or, rarely, the value. What C++ gives is taken as it is.

Functions written in Python are never given to C++: cel-expr-python 0.1.3 keeps every tuple
of arguments and every result for good, and dies of an optional among them.
"""
