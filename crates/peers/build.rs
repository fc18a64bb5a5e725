//! Compiles the other engines' doors (`engines/*.c`) when they are asked for.

fn main() {
    println!("cargo::rerun-if-changed=engines");
    if std::env::var_os("CARGO_FEATURE_ENGINES").is_none() {
        return;
    }
    let names = ["peer", "lmdb", "wiredtiger", "berkeleydb", "sqlite", "rocksdb"];
    cc::Build::new()
        .std("gnu11")
        .files(names.map(|name| format!("engines/{name}.c")))
        .compile("peer_engines");
    for library in ["lmdb", "wiredtiger", "db-5.3", "sqlite3", "rocksdb"] {
        println!("cargo::rustc-link-lib={library}");
    }
}
