#!/usr/bin/env bash
kubectl delete ns netpol-ns1 netpol-ns2 --ignore-not-found
