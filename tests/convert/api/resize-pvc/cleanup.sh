#!/usr/bin/env bash
kubectl delete namespace resize-pv --ignore-not-found
kubectl delete pv resize-pv-volume --ignore-not-found
kubectl delete storageclass resizable --ignore-not-found
