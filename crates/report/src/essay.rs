//! A page of charts that do not come from result rows, for example of a plan.

use crate::figures::Section;
use crate::frame::{TOOLS, frame, section};
use crate::text::escape;

/// The content of a page.
pub struct Essay {
    pub title: String,
    /// The line under the title.
    pub lead: String,
    /// Printed as it is, before the sections.
    pub text: String,
    pub sections: Vec<Section>,
}

impl Essay {
    /// The page. It needs no other file.
    pub fn html(&self) -> String {
        let link = |s: &Section| format!("<a href=\"#{}\">{}</a>", s.id, escape(s.title));
        let links: String = self.sections.iter().map(link).collect();
        let text = match self.text.is_empty() {
            true => String::new(),
            false => format!("<section id=\"summary\"><pre>{}</pre></section>", escape(&self.text)),
        };
        let body = format!(
            "<header><div><h1>{}</h1><p>{}</p></div>{TOOLS}</header><nav aria-label=\"Contents\">{links}</nav>\
             <main>{text}{}</main><footer><p>Made by atoll {}. Charts: Apache ECharts 6.1.0 (Apache License 2.0).</p></footer>",
            escape(&self.title),
            escape(&self.lead),
            self.sections.iter().map(section).collect::<String>(),
            driver::VERSION
        );
        let figures: Vec<_> = self.sections.iter().flat_map(|s| &s.figures).collect();
        frame(&self.title, &body, &figures, None)
    }
}
