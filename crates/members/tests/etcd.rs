//! The registry over a real etcd: `ATOLL_ETCD=http://HOST:PORT,.. cargo test --package members
//! --features etcd`.
#![cfg(feature = "etcd")]

use members::{Cluster, Refused};
use std::time::Duration;

#[test]
fn leases_and_claims() {
    let Ok(servers) = std::env::var("ATOLL_ETCD") else {
        return eprintln!("skipped: ATOLL_ETCD names no servers (scripts/relay-services up etcd DIR)");
    };
    let cluster = Cluster::new(members::registry(&servers).unwrap(), &format!("t{:x}", world::entropy()));
    let ttl = Duration::from_secs(3);
    let a = cluster.lease("a", "1.1.1.1:1", ttl).unwrap();
    assert!(matches!(cluster.lease("a", "2.2.2.2:2", ttl), Err(Refused::NameTaken { .. })));
    cluster.agree("sql, 2 islands").unwrap();
    assert!(matches!(cluster.agree("other"), Err(Refused::Manifest { .. })));
    assert_eq!(cluster.claim(0, "a").unwrap().term, 1);
    cluster.acked(0, 17).unwrap();
    // Longer than the lease without renewals.
    std::thread::sleep(ttl * 2);
    assert!(!a.is_over() && a.answers_until() > world::now_ns());
    let _b = cluster.lease("b", "2.2.2.2:2", ttl).unwrap();
    assert!(matches!(cluster.claim(0, "b"), Err(Refused::Served { .. })));
    drop(a);
    let claim = cluster.claim(0, "b").unwrap();
    assert_eq!((claim.term, claim.at_least), (2, 17));
    assert_eq!(cluster.islands().unwrap(), [(0, 2, "b".to_owned())]);
}
