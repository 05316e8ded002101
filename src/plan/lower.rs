pub fn lower() {}
