//! What a sandbox with `--net proxy` reaches unless the configuration says otherwise: public
//! package registries and git hosts. Each gets whatever a sandbox sends it, so nothing is here that
//! merely stores what anybody uploads.

pub const DEFAULT_RULES: &[&str] = &[
    // Debian, Ubuntu, Alpine.
    "deb.debian.org",
    "security.debian.org",
    "ftp.debian.org",
    "snapshot.debian.org",
    "deb.nodesource.com",
    "archive.ubuntu.com",
    "*.archive.ubuntu.com",
    "security.ubuntu.com",
    "ports.ubuntu.com",
    "keyserver.ubuntu.com",
    "dl-cdn.alpinelinux.org",
    // Python.
    "pypi.org",
    "files.pythonhosted.org",
    "conda.anaconda.org",
    "repo.anaconda.com",
    // JavaScript.
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "nodejs.org",
    "jsr.io",
    "npm.jsr.io",
    "deno.land",
    // Rust.
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "static.rust-lang.org",
    // Go.
    "proxy.golang.org",
    "sum.golang.org",
    "go.dev",
    // Ruby, PHP, Java, .NET, Elixir, Perl, R, Haskell, Dart.
    "rubygems.org",
    "index.rubygems.org",
    "packagist.org",
    "repo.packagist.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
    "plugins.gradle.org",
    "services.gradle.org",
    "api.nuget.org",
    "hex.pm",
    "repo.hex.pm",
    "www.cpan.org",
    "cpan.metacpan.org",
    "cloud.r-project.org",
    "hackage.haskell.org",
    "pub.dev",
    // Git hosts.
    "github.com",
    "api.github.com",
    "codeload.github.com",
    "raw.githubusercontent.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
    "gitlab.com",
    "bitbucket.org",
    "codeberg.org",
    "git.sr.ht",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rule;

    #[test]
    fn every_default_is_a_rule_in_its_one_spelling() {
        for text in DEFAULT_RULES {
            assert_eq!(text.parse::<Rule>().expect(text).to_string(), *text);
        }
    }
}
