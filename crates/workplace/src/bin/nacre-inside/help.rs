//! What it can do, by example.

pub(super) fn of(area: &str) -> &'static str {
    match area {
        "services" => SERVICES,
        "env" => ENV,
        "tunnel" => TUNNEL,
        "snapshot" => SNAPSHOT,
        "actions" => ACTIONS,
        _ => ALL,
    }
}

const ALL: &str = "\
nacre, inside a sandbox

  nacre services list                                what runs here
  nacre services start --name web --command 'npm run dev' --cwd app
  nacre services logs web --follow
  nacre services expose 3000                         show it in the preview
  nacre ports                                        who listens
  nacre env apply --spec @env.json                   write env files
  nacre tunnel add api 8080                          give a port an address
  nacre snapshot --message 'tests pass'              keep all this
  nacre actions list                                 what can be done outside

Each has --help, and --json for scripts.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused, 5 unavailable.
";

const SERVICES: &str = "\
nacre services: commands that are kept running

  nacre services start --name web --command 'npm run dev' --cwd app
      Started by a login shell in the workspace's folder `app`. A service of the
      same name is replaced. One that fails is started again, five times in a row
      at most. What runs now runs again after a pause.
  nacre services list
  nacre services stop web                            it and all it started
  nacre services start web                           again, as it was
  nacre services restart web
  nacre services rm web                              and forget it
  nacre services logs web [--tail BYTES] [--follow]
  nacre services expose 3000                         what the preview shows
";

const ENV: &str = "\
nacre env: files that programs read their settings from

  nacre env apply --spec '[{\"path\": \".env.local\", \"keys\": [{\"key\": \"API_KEY\"}]}]'
  nacre env apply --spec @env.json                   from a file; `-` for standard input
      Values are those given for the session, else those in your environment. Where
      one is missing nothing is written. Files are links to memory: no snapshot has
      them, and git does not see them. With \"mode\": \"public\" they are plain files.
  nacre env scrub                                    remove the links and what they led to
";

const TUNNEL: &str = "\
nacre tunnel: ports with an address outside

  nacre tunnel add api 8080 [--protocol http|ws|auto]
  nacre tunnel ls
  nacre tunnel rm api
";

const SNAPSHOT: &str = "\
nacre snapshot: keep the sandbox as it is

  nacre snapshot --message 'before the migration'
";

const ACTIONS: &str = "\
nacre actions: what is done outside for this session, some of it after approval

  nacre actions list
  nacre actions guide linear
  nacre actions run --integration linear --action create_issue --params '{\"title\": \"x\"}'
      Waits for approval where it is needed.
";
