kubectl create ingress shop -n ingress-test --rule='shop.example.com/*=shop:80'
