//! Embeds every file of `experiments/` in the program, so that it runs without the source tree.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../experiments");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("experiments/ is there")
        .map(|entry| entry.expect("a readable folder").file_name().into_string().expect("names are ASCII"))
        .filter(|name| name.ends_with(".toml") || name.ends_with(".tsv"))
        .collect();
    names.sort();
    let line = |name: &String| {
        let path = folder.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string())
    };
    let list: String = names.iter().map(line).collect();
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("files.rs");
    let text = format!("pub const FILES: &[(&str, &str)] = &[\n{list}];\n");
    fs::write(out, text).expect("the build folder can be written");
}
