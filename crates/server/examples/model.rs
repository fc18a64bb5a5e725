//! The server over the naive model of an engine, in memory: for comparisons of the language alone.
//!
//! ```text
//! cargo run -p server --example model -- 127.0.0.1:5499
//! ```

#[path = "../tests/it/model.rs"]
mod model;

use server::serving::{self, Options};
use server::shared::Limits;
use server::tls::Certificate;
use tokio::sync::watch;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = std::env::args().nth(1).ok_or("expected an address, such as 127.0.0.1:5499")?.parse()?;
    let dir = tempfile::tempdir()?;
    let options = Options {
        listen,
        unix: None,
        dir: dir.path().into(),
        certificate: Some(Certificate::Own(dir.path().into())),
        limits: Limits::default(),
        stores: model::STORES,
        status: None,
    };
    let (_stop, stopping) = watch::channel(false);
    let told = |address| println!("it listens on {address}");
    serving::serve(model::Model::new(), options, stopping, told).await?;
    Ok(())
}
