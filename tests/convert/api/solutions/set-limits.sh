kubectl set resources deployment worker -n limits-test --limits=memory=256Mi,cpu=500m --requests=memory=128Mi
