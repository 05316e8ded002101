kubectl autoscale deployment web-app -n hpa-test --min=1 --max=3 --cpu-percent=50
