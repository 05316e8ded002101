#[test]
fn t() {
    let s = gevals::bash::parse("kubectl apply -n data -f - <<EOF\nkind: A\nEOF\n").unwrap();
    let mut open = vec![(0, s.root())];
    while let Some((d, n)) = open.pop() {
        println!("{}{} named={} {:?}", "  ".repeat(d), n.kind(), n.is_named(), s.text(n));
        for i in (0..n.child_count()).rev() { open.push((d + 1, n.child(i as u32).unwrap())); }
    }
}
