"""The same expressions on gangctl's engines and on a real kube-apiserver, which has the last word."""
