//! Embeds every file of `experiments/` and every described machine of `machines/*.toml` in the
//! program, so that it runs without the source tree.

use std::path::Path;
use std::{env, fs};

fn main() {
    embed("experiments", "FILES", "files.rs", &[".toml", ".tsv"]);
    embed("machines", "MACHINES", "machines.rs", &[".toml"]);
}

/// Writes the files of a folder with these endings as a constant, by name.
fn embed(folder: &str, constant: &str, out: &str, endings: &[&str]) {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let folder = root.join(folder);
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("a readable folder").file_name().into_string().expect("names are ASCII"))
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .collect();
    names.sort();
    let line = |name: &String| {
        let path = folder.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string())
    };
    let list: String = names.iter().map(line).collect();
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(out);
    let text = format!("pub const {constant}: &[(&str, &str)] = &[\n{list}];\n");
    fs::write(out, text).expect("the build folder can be written");
}
