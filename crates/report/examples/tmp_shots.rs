#[path = "../tests/it/browser.rs"]
#[allow(dead_code)]
mod browser;
use browser::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let home = tempfile::tempdir().unwrap();
    let mut b = Browser::start(&find().unwrap(), home.path());
    let mut p = b.page();
    for (name, s) in [
        ("light", Screen { width: 1240, height: 900, mobile: false, scheme: "light" }),
        ("dark", Screen { width: 1240, height: 900, mobile: false, scheme: "dark" }),
        ("phone", Screen { width: 390, height: 844, mobile: true, scheme: "light" }),
    ] {
        if a.len() > 3 && !a[3..].iter().any(|x| x == name) {
            continue;
        }
        p.open(std::path::Path::new(&a[1]), s);
        println!(
            "{name}: {:?} {:?} charts {} drawn {} svg {} width {}",
            p.complaints(),
            p.requests(),
            p.value("document.documentElement.dataset.charts"),
            p.value("document.querySelectorAll('.chart[data-drawn]').length"),
            p.value("document.querySelectorAll('.chart svg').length"),
            p.value("document.documentElement.scrollWidth")
        );
        let ids = p.value("[...document.querySelectorAll('section')].map(s => s.id)");
        std::fs::write(format!("{}/{name}-head.png", a[2]), p.picture("header")).unwrap();
        for id in ids.as_array().unwrap() {
            let id = id.as_str().unwrap();
            std::fs::write(format!("{}/{name}-{id}.png", a[2]), p.picture(&format!("#{id}"))).unwrap();
        }
    }
}
