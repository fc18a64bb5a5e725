//! File circles: files of one crate that import each other in a loop, so that none of them can be
//! read, tested or moved alone. `tidy` prints them, and their number may only fall.
//!
//! ```text
//!   arrow   a.rs --> b.rs        a.rs says `use crate::b::X`, `super::b::f()` or `b::X`
//!   circle  a.rs --> b.rs --> c.rs --> a.rs, with every file that lies on such a loop
//! ```
//!
//! A name that a module re-exports leads on to the file that defines it. A parent may declare,
//! re-export and use its children: that is no arrow. A child's use of its parent is one. Tests are
//! left out, and so are calls of methods, which need no import.

use crate::root;
use crate::rust_text;
use crate::workspace::Workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most circles in the whole workspace. It is lowered when their number falls.
const LIMIT: usize = 4;
const GOAL: usize = 5;
/// Crates without any circle, and with a rule that it stays so.
const NONE_IN: &[&str] = &["store"];

/// The most re-exports on the way to a definition.
const DEEP: usize = 8;

/// The circles of the tree, each as the files on it, relative to the folder of their crate.
pub struct Circles(Vec<Circle>);

struct Circle {
    room: String,
    files: Vec<String>,
}

impl Circles {
    pub fn read(workspace: &Workspace) -> Circles {
        let rooms = workspace.crates.iter().flat_map(|room| {
            let src = room.folder.join("src");
            let below = workspace.with_extension("rs").filter_map(|path| path.strip_prefix(&src).ok());
            let files = below.filter_map(|path| {
                let text = std::fs::read_to_string(root().join(&src).join(path)).ok()?;
                Some((path.to_string_lossy().into_owned(), text))
            });
            let files: Vec<(String, String)> = files.collect();
            circles(&files).into_iter().map(|files| Circle { room: room.name.clone(), files })
        });
        Circles(rooms.collect())
    }

    /// The count, and a line for each circle.
    pub fn summary(&self) -> Vec<String> {
        let head = format!("file circles: {} (goal {GOAL}, limit {LIMIT})", self.0.len());
        let told = self.0.iter().map(|c| format!("  {}: {}", c.room, c.files.join(", ")));
        [head].into_iter().chain(told).collect()
    }

    pub fn check(&self) -> Vec<String> {
        let many = (self.0.len() > LIMIT).then(|| {
            format!(
                "{} file circles, at most {LIMIT}: move what both sides need to a file below",
                self.0.len()
            )
        });
        let closed = self.0.iter().filter(|c| NONE_IN.contains(&c.room.as_str()));
        let closed = closed
            .map(|c| format!("{} must have no file circle, and has one of {}", c.room, c.files.join(", ")));
        many.into_iter().chain(closed).collect()
    }
}

type ModulePath = Vec<String>;

/// A module: a file, or a part of one.
#[derive(Default)]
struct Module {
    file: usize,
    imports: Vec<Import>,
    /// Paths outside `use` that begin with `crate`, `super`, `self` or the name of a child.
    paths: Vec<ModulePath>,
    defines: BTreeSet<String>,
    /// Names of its children, and whether each exists in tests only.
    children: Vec<(String, bool)>,
}

/// One name of a `use` declaration; `*` for all names.
struct Import {
    path: ModulePath,
    name: String,
}

/// The circles among the files of one crate, given as paths below `src` and texts.
fn circles(files: &[(String, String)]) -> Vec<Vec<String>> {
    let has_library = files.iter().any(|(path, _)| path == "lib.rs");
    let mut modules = BTreeMap::new();
    for (file, (path, text)) in files.iter().enumerate() {
        // A program beside a library names it as another crate.
        if path.ends_with("tests.rs") || (has_library && path == "main.rs") {
            continue;
        }
        let code = rust_text::split(text).code;
        Parser { tokens: tokens(&code), at: 0, file, modules: &mut modules }.parse(module_of(path));
    }
    drop_tests(&mut modules);
    let arrows = arrows(&modules);
    let on_loops = components(files.len(), &arrows);
    on_loops.into_iter().map(|circle| circle.into_iter().map(|n| files[n].0.clone()).collect()).collect()
}

fn module_of(path: &str) -> ModulePath {
    let path = Path::new(path).with_extension("");
    let mut parts: ModulePath = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts
        .last()
        .is_some_and(|last| last == "mod" || (parts.len() == 1 && (last == "lib" || last == "main")))
    {
        parts.pop();
    }
    parts
}

/// Words, `::`, and single characters.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            first => first.len_utf8(),
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

/// Reads the modules of one file.
struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    file: usize,
    modules: &'a mut BTreeMap<ModulePath, Module>,
}

impl Parser<'_> {
    fn parse(mut self, path: ModulePath) {
        self.module(path);
    }

    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).copied().unwrap_or("")
    }

    /// Up to the brace that closes the module, or to the end of the file.
    fn module(&mut self, path: ModulePath) {
        let mut module = Module { file: self.file, ..Module::default() };
        let (mut depth, mut in_tests) = (0, false);
        while self.at < self.tokens.len() {
            let before = self.at.checked_sub(1).map_or("", |at| self.tokens[at]);
            match self.peek(0) {
                "#" if ["[", "!"].contains(&self.peek(1)) => in_tests |= self.attribute(),
                "mod" if self.peek(2) == ";" || self.peek(2) == "{" => {
                    module.children.push((self.peek(1).to_owned(), in_tests));
                    self.child(&path, in_tests);
                    in_tests = false;
                }
                _ if in_tests => {
                    self.skip_item();
                    in_tests = false;
                }
                // `use<..>` in a type lists its captures.
                "use" if self.peek(1) != "<" => {
                    self.at += 1;
                    self.import(&mut module.imports, &mut Vec::new());
                }
                "}" if depth == 0 => {
                    self.at += 1;
                    break;
                }
                _ => depth = self.other(&mut module, before, depth),
            }
        }
        self.modules.insert(path, module);
    }

    /// One token, or one path.
    fn other(&mut self, module: &mut Module, before: &str, depth: usize) -> usize {
        const DEFINITIONS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
        let token = self.peek(0);
        let depth = match token {
            "{" => depth + 1,
            "}" => depth - 1,
            _ => depth,
        };
        if DEFINITIONS.contains(&before) {
            let name = token.to_owned();
            module.defines.insert(name);
        }
        let begins = self.peek(1) == "::" && before != "::" && before != "$" && is_name(token);
        if !begins {
            self.at += 1;
            return depth;
        }
        let mut path = vec![token.to_owned()];
        self.at += 1;
        while self.peek(0) == "::" && is_name(self.peek(1)) {
            path.push(self.peek(1).to_owned());
            self.at += 2;
        }
        module.paths.push(path);
        depth
    }

    fn child(&mut self, path: &ModulePath, in_tests: bool) {
        let inner = path.iter().cloned().chain([self.peek(1).to_owned()]).collect();
        self.at += 2;
        if self.peek(0) == ";" {
            self.at += 1;
        } else if in_tests {
            self.skip_group("{", "}");
        } else {
            self.at += 1;
            self.module(inner);
        }
    }

    /// Whether the attribute keeps an item for tests alone.
    fn attribute(&mut self) -> bool {
        let from = self.at;
        while !["[", ""].contains(&self.peek(0)) {
            self.at += 1;
        }
        self.skip_group("[", "]");
        let words = &self.tokens[from..self.at];
        let tests = words.iter().any(|word| ["test", "loom"].contains(word));
        words.contains(&"cfg") && tests && !words.contains(&"not") && !words.contains(&"any")
    }

    /// Past the bracket that closes the one here.
    fn skip_group(&mut self, open: &str, close: &str) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            depth += usize::from(self.peek(0) == open);
            depth -= usize::from(self.peek(0) == close);
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Past a semicolon or a block. A field or a match arm ends with a comma.
    fn skip_item(&mut self) {
        loop {
            match self.peek(0) {
                "(" => self.skip_group("(", ")"),
                "{" => return self.skip_group("{", "}"),
                "}" | "" => return,
                ";" | "," => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }

    /// A tree of names, up to its comma, brace or semicolon.
    fn import(&mut self, found: &mut Vec<Import>, path: &mut ModulePath) {
        let outer = path.len();
        let mut name = None;
        loop {
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !["}", ""].contains(&self.peek(0)) {
                        self.import(found, path);
                        self.at += usize::from(self.peek(0) != "}");
                    }
                    self.at += 1;
                    path.truncate(outer);
                    return;
                }
                "," | "}" | ";" | "" => break,
                "as" => {
                    name = Some(self.peek(1).to_owned());
                    self.at += 1;
                }
                "::" => {}
                word if name.is_none() && (path.is_empty() || word != "self") => path.push(word.to_owned()),
                _ => {}
            }
            self.at += 1;
        }
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        found.push(Import { path: path.clone(), name });
        path.truncate(outer);
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Removes the modules that exist in tests only.
fn drop_tests(modules: &mut BTreeMap<ModulePath, Module>) {
    let child = |path: &ModulePath, name: &String| path.iter().chain([name]).cloned().collect::<ModulePath>();
    let tests = modules.iter().flat_map(|(path, module)| {
        module.children.iter().filter(|(_, tests)| *tests).map(move |(name, _)| child(path, name))
    });
    let tests: Vec<ModulePath> = tests.collect();
    modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
}

/// By file, the files that it names. A module and its descendants are one thought in several files:
/// the module may name its descendants freely, so only their arrows to others and up count.
fn arrows(modules: &BTreeMap<ModulePath, Module>) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut arrows = BTreeMap::<usize, BTreeSet<usize>>::new();
    let owner = |file| modules.iter().find(|(_, module)| module.file == file).map(|(path, _)| path);
    for (path, module) in modules {
        let imports = module.imports.iter().map(|import| &import.path);
        for named in imports.chain(&module.paths) {
            let to = resolve(modules, path, named, 0).filter(|to| *to != module.file);
            let (Some(to), Some(from)) = (to, owner(module.file)) else { continue };
            if !owner(to).is_some_and(|to| to.starts_with(from)) {
                arrows.entry(module.file).or_default().insert(to);
            }
        }
    }
    arrows
}

/// The file that defines `named`, a path in the module `at`; `None` for names of other crates.
fn resolve(
    modules: &BTreeMap<ModulePath, Module>,
    at: &[String],
    named: &[String],
    depth: usize,
) -> Option<usize> {
    let mut at = at.to_vec();
    let mut rest = named.iter().peekable();
    match rest.peek()?.as_str() {
        "crate" => {
            at.clear();
            rest.next();
        }
        "self" => {
            rest.next();
        }
        "super" => {}
        first => {
            let inside = [&at[..], &[first.to_owned()]].concat();
            modules.get(&inside)?;
        }
    }
    while rest.next_if(|part| *part == "super").is_some() {
        at.pop()?;
    }
    while let Some(part) = rest.next() {
        let inside = [&at[..], std::slice::from_ref(part)].concat();
        if modules.contains_key(&inside) {
            at = inside;
            continue;
        }
        let module = modules.get(&at)?;
        if depth < DEEP && !module.defines.contains(part) {
            let behind: ModulePath = rest.clone().cloned().collect();
            let through = |import: &Import| {
                let is_all = import.name == "*";
                let path = if is_all { &import.path[..import.path.len() - 1] } else { &import.path[..] };
                let tail: &[String] = if is_all { std::slice::from_ref(part) } else { &[] };
                resolve(modules, &at, &[path, tail, &behind].concat(), depth + 1)
            };
            let imports = || module.imports.iter();
            let by_name = imports().find(|import| import.name == *part);
            if let Some(import) = by_name {
                return through(import);
            }
            let defined =
                |file: &usize| modules.values().any(|m| m.file == *file && m.defines.contains(part));
            let all = imports().filter(|import| import.name == "*").filter_map(through).find(defined);
            return all.or(Some(module.file));
        }
        return Some(module.file);
    }
    modules.get(&at).map(|module| module.file)
}

/// The sets of two or more files that all reach each other.
fn components(files: usize, arrows: &BTreeMap<usize, BTreeSet<usize>>) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..files).map(|from| reached(from, arrows)).collect();
    let around = |n: usize| (0..files).filter(|&m| reach[n].contains(&m) && reach[m].contains(&n)).collect();
    let circles: BTreeSet<Vec<usize>> = (0..files).map(around).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

fn reached(from: usize, arrows: &BTreeMap<usize, BTreeSet<usize>>) -> BTreeSet<usize> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(at) = left.pop() {
        left.extend(arrows.get(&at).into_iter().flatten().filter(|to| seen.insert(**to)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_has_no_more_circles_than_its_limit() {
        let circles = Circles::read(&Workspace::read().unwrap());
        let complaints = circles.check();
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        circles(&files)
    }

    #[test]
    fn a_circle_too_many_and_one_in_a_closed_crate_are_complaints() {
        let circles = |count: usize, room: &str| {
            let circle = || Circle { room: room.to_owned(), files: vec!["a.rs".into(), "b.rs".into()] };
            Circles((0..count).map(|_| circle()).collect())
        };
        assert!(circles(LIMIT, "x").check().is_empty());
        assert!(circles(LIMIT + 1, "x").check()[0].contains("at most"));
        assert!(circles(1, "store").check()[0].ends_with("one of a.rs, b.rs"));
        assert_eq!(circles(1, "x").summary()[1], "  x: a.rs, b.rs");
    }

    #[test]
    fn a_planted_circle_is_found() {
        let circle = found(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\npub use a::A;\npub use e::deep::E;"),
            ("a.rs", "use crate::b::{self, inner::B as Other};\npub struct A;"),
            ("b.rs", "pub mod inner { use super::super::c; pub struct B; }"),
            ("c.rs", "fn f() -> crate::A { loop {} }"),
            ("d.rs", "use crate::A; use crate::e::E;"),
            ("e/mod.rs", "mod deep;\npub use deep::E;\nmod other;\nfn f() { deep::g() }"),
            ("e/deep.rs", "use super::other::f; pub struct E;"),
            ("e/other.rs", "pub fn f() { super::deep::g(); }"),
        ]);
        assert_eq!(circle, [vec!["a.rs", "b.rs", "c.rs"], vec!["e/deep.rs", "e/other.rs"]]);
    }

    #[test]
    fn tests_comments_and_lists_of_children_close_no_circle() {
        let none = found(&[
            (
                "lib.rs",
                "#[cfg(test)] mod models; pub mod a; pub mod b; pub use a::*; /// [`a::X`]\nstruct S;",
            ),
            (
                "a.rs",
                "use super::S; // crate::b\npub struct X;\n#[cfg(test)]\nmod tests { use crate::b::Y; }",
            ),
            ("b.rs", "use crate::X; pub struct Y;\n#[cfg(test)] use crate::models::M;"),
            ("models.rs", "use crate::a; use crate::b::Y; pub struct M;"),
            ("a_tests.rs", "use crate::b;"),
        ]);
        assert!(none.is_empty(), "{none:?}");
    }
}
