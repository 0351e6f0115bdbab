"""``meta.k8s.io`` Tables: what ``kubectl get`` asks for and prints, with the columns of kube-apiserver.

Columns have no descriptions, which kubectl does not print.
"""
