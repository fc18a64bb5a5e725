//! libFuzzer around the targets of the crate `hostile`. `FUZZ_TARGET` selects the target; without
//! it, their names are listed. The seeds of the target are written to the folder `FUZZ_SEEDS`
//! before libFuzzer reads it.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

static RUN: OnceLock<fn(&[u8])> = OnceLock::new();

fn choose() {
    let names = || hostile::TARGETS.iter().map(|target| target.name).collect::<Vec<_>>();
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    if wanted.is_empty() {
        println!("{}", names().join("\n"));
        std::process::exit(0);
    }
    let Some(target) = hostile::find(&wanted) else {
        eprintln!("FUZZ_TARGET is '{wanted}': expected one of {}", names().join(", "));
        std::process::exit(2);
    };
    if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
        for (n, seed) in (target.seeds)().iter().enumerate() {
            let path = Path::new(&folder).join(format!("seed-{n:04}"));
            if let Err(error) = std::fs::write(&path, seed) {
                eprintln!("{}: {error}", path.display());
                std::process::exit(2);
            }
        }
    }
    let _ = RUN.set(target.run);
}

libfuzzer_sys::fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(run) = RUN.get() {
        run(data);
    }
});
