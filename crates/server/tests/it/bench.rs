//! A server on the model, and raw connections to it.

use crate::model::{Model, STORES};
use server::serving::{self, Options};
use server::shared::Limits;
use server::tls::Certificate;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

pub struct Bench {
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
    pub stop: watch::Sender<bool>,
    pub server: JoinHandle<()>,
}

impl Bench {
    pub async fn new() -> Bench {
        Bench::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Bench {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = Options {
            listen: "127.0.0.1:0".parse().expect("an address"),
            unix: Some(dir.path().join(".s.PGSQL.5432")),
            dir: dir.path().into(),
            certificate: Some(Certificate::Own(dir.path().into())),
            limits: Limits { stop: Duration::from_millis(500), ..Limits::default() },
            stores: STORES,
            status: None,
        };
        change(&mut options);
        let (stop, stopping) = watch::channel(false);
        let (ready, address) = oneshot::channel();
        let server = tokio::spawn(async move {
            let told = |address| ready.send(address).expect("the test waits for it");
            serving::serve(Model::new(), options, stopping, told).await.expect("the server starts");
        });
        Bench { address: address.await.expect("an address"), dir, stop, server }
    }

    pub fn config(&self) -> String {
        format!("host=127.0.0.1 port={} user=atoll dbname=test", self.address.port())
    }

    pub async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(&self.config(), tokio_postgres::NoTls).await.expect("it connects");
        tokio::spawn(connection);
        client
    }
}
