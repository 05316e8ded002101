#!/usr/bin/env bash
set -e
kubectl delete namespace netpol-ns1 netpol-ns2 --ignore-not-found
kubectl create ns netpol-ns1
kubectl create ns netpol-ns2
