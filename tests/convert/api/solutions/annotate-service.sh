kubectl annotate service legacy -n annotate-test owner=team-shop example.com/ticket=SHOP-7 --overwrite
