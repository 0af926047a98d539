#!/bin/bash
# User data of midair's nodes on EC2: makes an instance of a stock Debian 12,
# Ubuntu 22.04 or 24.04, or Amazon Linux 2023 GPU image a registered Slurm node.
# cloud-init runs it at the first boot; it then installs itself as a service, so
# that an instance that was stopped and started becomes a node again.
#
# Every step says on the console where it is. An instance that cannot become a
# node ends itself, so that nobody pays for it: the launch template must say
# InstanceInitiatedShutdownBehavior=terminate.

### Settings

# Where slurmctld is, as nodes reach it: HOST or HOST:PORT. Nodes get their
# slurm.conf, gres.conf and cgroup.conf from it (SlurmctldParameters must have
# enable_configless). Empty: the image has them in /etc/slurm.
CONTROLLER=""
# Where munge's key comes from: "image" (it is in the image), or, base64-encoded,
# "ssm:/midair/CLUSTER/munge-key" (a SecureString of the SSM Parameter Store) or
# "secretsmanager:midair/CLUSTER/munge-key". Both need one permission of the
# node's role.
MUNGE_KEY="image"
# Packages to install if the image has no slurmd. Debian and Ubuntu have them;
# for Amazon Linux a repository of yours must (EPEL's names are given here). Their
# version must be slurmctld's, or up to two releases older.
PACKAGES_DEB="slurmd munge nftables curl"
PACKAGES_RPM="slurm-slurmd munge nftables"
# More options of slurmd.
SLURMD_OPTIONS=""
# An instance that is no node within so many seconds ends itself. Keep it below
# the pool's resume_timeout.
READY_WITHIN=540
# midair writes the tag midair:node seconds after it has created an instance.
NAMED_WITHIN=180
# "yes" keeps an instance that failed, to look into it. It is billed until
# somebody ends it.
KEEP_FAILED="no"
# Jobs could use the node's role by way of the instance metadata, and so get at
# munge's key. "yes" lets them.
METADATA_FOR_USERS="no"

# What your nodes need beside Slurm: users, home folders, data. Runs before
# slurmd starts; what it returns other than 0 ends the instance.
site_setup() {
	return 0
}

### The rest needs no change.

set -u -o pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ROOT=""    # before every path that is written
IMDS="http://169.254.169.254"
SECRETS="" # the API for munge's key; empty: AWS's own
PAUSE=1    # seconds between looks
SETTLE=10  # seconds that slurmd must stay up
FLUSH=5    # seconds for the console's last lines
UNTAGGED=10 # seconds after which an instance without any tag is odd
TOKEN=""

say() { printf 'midair-node: %s\n' "$*"; }

# fail says why this will be no node, and ends the instance.
fail() {
	say "FAILED: $*"
	if [ "$KEEP_FAILED" = yes ]; then
		say "the instance is kept, and billed, for you to look into it (KEEP_FAILED)"
		systemctl stop midair-node-guard.timer 2>/dev/null
		exit 1
	fi
	say "the instance ends itself"
	sync
	sleep "$FLUSH"
	systemctl poweroff || poweroff -f
	exit 1
}

# guard ends the instance also if this script hangs or is killed.
guard() {
	systemctl stop midair-node-guard.timer 2>/dev/null
	systemd-run --quiet --unit=midair-node-guard --on-active="${READY_WITHIN}s" /bin/sh -c \
		"echo 'midair-node: FAILED: no node within ${READY_WITHIN} s; the instance ends itself' >/dev/console; systemctl poweroff" ||
		say "there is no guard: systemd-run failed"
}

# imds prints an item of the instance metadata (IMDSv2).
imds() {
	local code
	code=$(curl --silent --noproxy '*' --max-time 5 --output "$TMP/imds" --write-out '%{http_code}' \
		--header "X-aws-ec2-metadata-token: $TOKEN" "$IMDS/latest/meta-data/$1")
	case $code in
	200) cat "$TMP/imds" ;;
	404) return 4 ;;
	*) return 1 ;;
	esac
}

new_token() {
	TOKEN=$(curl --silent --fail --noproxy '*' --max-time 5 --request PUT \
		--header 'X-aws-ec2-metadata-token-ttl-seconds: 21600' "$IMDS/latest/api/token") && [ -n "$TOKEN" ]
}

metadata() {
	local n
	for n in 1 2 3 4 5 6 7 8 9 10; do
		if new_token; then
			say "this is $(imds instance-id), $(imds instance-type) in $(imds placement/availability-zone)"
			return
		fi
		[ "$n" = 10 ] || sleep "$PAUSE"
	done
	fail "the instance metadata service does not answer at $IMDS; the launch template must have HttpEndpoint enabled"
}

packages() {
	local missing="" c
	for c in slurmd munged python3; do
		command -v "$c" >/dev/null || missing="$missing $c"
	done
	if [ -z "$missing" ] && { [ "$METADATA_FOR_USERS" = yes ] || command -v nft >/dev/null; }; then
		say "the image has $(slurmd -V 2>/dev/null || echo slurmd)"
		return
	fi
	say "installing packages"
	if command -v apt-get >/dev/null; then
		# shellcheck disable=SC2086 # a list of words
		DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 update &&
			DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends $PACKAGES_DEB >"$TMP/packages" 2>&1
	elif command -v dnf >/dev/null; then
		# shellcheck disable=SC2086
		dnf -q -y install $PACKAGES_RPM >"$TMP/packages" 2>&1
	fi
	for c in slurmd munged; do
		command -v "$c" >/dev/null || {
			tail -n 5 "$TMP/packages" 2>/dev/null
			fail "there is no $c: put it into the image, or name packages and a repository that have it"
		}
	done
	say "installed $(slurmd -V 2>/dev/null || echo slurmd)"
}

# gpus makes the GPUs' device files, which gres.conf names, and counts them.
gpus() {
	local card=0 seen d
	for d in "$ROOT"/sys/bus/pci/devices/*; do
		[ "$(cat "$d/vendor" 2>/dev/null)" = 0x10de ] || continue
		case $(cat "$d/class" 2>/dev/null) in 0x03*) card=$((card + 1)) ;; esac
	done
	[ "$card" -gt 0 ] || return 0
	command -v nvidia-smi >/dev/null || fail "the instance has $card NVIDIA GPUs and the image no driver; use a GPU image"
	seen=$(nvidia-smi -L 2>"$TMP/nvidia" | grep -c '^GPU ')
	[ "$seen" = "$card" ] || fail "the driver sees $seen of $card GPUs: $(head -n 1 "$TMP/nvidia")"
	say "$card GPUs"
}

# aws_secret asks the Parameter Store or Secrets Manager with the credentials of
# the node's role, and writes munge's key. It needs no AWS command.
aws_secret() {
	IMDS=$IMDS TOKEN=$TOKEN SECRETS=$SECRETS python3 - "$1" "$2" <<'PYTHON'
import base64, datetime, hashlib, hmac, json, os, sys, urllib.error, urllib.request

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

def stop(text):
    sys.exit("midair-node: " + text)

def imds(path):
    r = urllib.request.Request(os.environ["IMDS"] + "/latest/meta-data/" + path, headers={"X-aws-ec2-metadata-token": os.environ["TOKEN"]})
    return direct.open(r, timeout=5).read().decode()

service, _, name = sys.argv[1].partition(":")
try:
    role = imds("iam/security-credentials/").split()[0]
    c = json.loads(imds("iam/security-credentials/" + role))
except (urllib.error.URLError, IndexError, KeyError, ValueError):
    stop("the instance has no role: set IamInstanceProfile in the launch template")
region = imds("placement/region")
if service == "ssm":
    target, ask = "AmazonSSM.GetParameter", {"Name": name, "WithDecryption": True}
else:
    target, ask = "secretsmanager.GetSecretValue", {"SecretId": name}
url = os.environ["SECRETS"] or "https://%s.%s.%s" % (service, region, imds("services/domain"))
body = json.dumps(ask).encode()
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
send = {"content-type": "application/x-amz-json-1.1", "host": url.split("//")[1], "x-amz-date": now,
        "x-amz-security-token": c["Token"], "x-amz-target": target}
names = ";".join(sorted(send))
text = "POST\n/\n\n" + "".join("%s:%s\n" % (k, send[k]) for k in sorted(send)) + "\n" + names + "\n" + hashlib.sha256(body).hexdigest()
scope = "/".join((now[:8], region, service, "aws4_request"))
key = ("AWS4" + c["SecretAccessKey"]).encode()
for part in scope.split("/"):
    key = hmac.new(key, part.encode(), hashlib.sha256).digest()
sign = "\n".join(("AWS4-HMAC-SHA256", now, scope, hashlib.sha256(text.encode()).hexdigest()))
send["authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
    c["AccessKeyId"], scope, names, hmac.new(key, sign.encode(), hashlib.sha256).hexdigest())
try:
    answer = json.loads(urllib.request.urlopen(urllib.request.Request(url + "/", body, send), timeout=20).read())
except urllib.error.HTTPError as e:
    stop("%s refuses %s: %s" % (service, name, e.read(500).decode(errors="replace")))
except urllib.error.URLError as e:
    stop("%s cannot be reached at %s: %s" % (service, url, e.reason))
value = answer["Parameter"]["Value"] if service == "ssm" else answer.get("SecretBinary") or answer["SecretString"]
try:
    munge = base64.b64decode("".join(value.split()), validate=True)
except ValueError:
    stop("%s is not base64: store it with base64 -w0 /etc/munge/munge.key" % name)
if not 32 <= len(munge) <= 1024:
    stop("%s has %d bytes; a key of munge has 32 to 1024" % (name, len(munge)))
with open(sys.argv[2], "wb", opener=lambda p, f: os.open(p, f, 0o400)) as f:
    f.write(munge)
PYTHON
}

munge_key() {
	local key=$ROOT/etc/munge/munge.key
	case $MUNGE_KEY in
	image)
		[ -s "$key" ] || fail "the image has no $key; put it there, or set MUNGE_KEY"
		;;
	ssm:?* | secretsmanager:?*)
		rm -f "$key.new"
		aws_secret "$MUNGE_KEY" "$key.new" || fail "munge's key cannot be had from $MUNGE_KEY"
		{ chown munge:munge "$key.new" && mv -f "$key.new" "$key"; } || fail "write $key"
		say "munge's key is from $MUNGE_KEY"
		;;
	*) fail "MUNGE_KEY is \"$MUNGE_KEY\"; want image, ssm:NAME or secretsmanager:NAME" ;;
	esac
}

# keep_metadata lets only root use the instance metadata, and with it the node's
# role.
keep_metadata() {
	[ "$METADATA_FOR_USERS" = yes ] && return
	nft -f - <<'NFT' || fail "the instance metadata cannot be kept from jobs: nft failed; set METADATA_FOR_USERS=yes to do without"
table inet midair_metadata
delete table inet midair_metadata
table inet midair_metadata {
	chain output {
		type filter hook output priority 0; policy accept;
		meta skuid != 0 ip daddr 169.254.169.254 reject
		meta skuid != 0 ip6 daddr fd00:ec2::254 reject
	}
}
NFT
}

# wait_for_name waits until midair has written which node this is.
wait_for_name() {
	local start=$SECONDS code
	say "waiting for the tag midair:node"
	while :; do
		NODE=$(imds tags/instance/midair:node)
		code=$?
		if [ "$code" = 0 ] && [ -n "$NODE" ]; then
			[[ $NODE =~ ^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,62}$ ]] || fail "the tag midair:node is \"$NODE\", which is no name of a node"
			say "the node is $NODE"
			return
		fi
		if [ "$code" = 4 ] && [ $((SECONDS - start)) -ge "$UNTAGGED" ] && ! imds tags/instance >/dev/null; then
			fail "the instance cannot read its tags: the launch template must have InstanceMetadataTags enabled"
		fi
		[ "$code" = 4 ] || new_token
		[ $((SECONDS - start)) -lt "$NAMED_WITHIN" ] || fail "there is no tag midair:node after $NAMED_WITHIN s: midair has not named this instance (is the controller up, and may it call ec2:CreateTags?)"
		sleep "$PAUSE"
	done
}

# own_name makes the host's name the node's, as NodeHostname says, for good.
own_name() {
	local ip
	hostnamectl set-hostname "$NODE" || fail "set the host name $NODE"
	ip=$(imds local-ipv4)
	sed -i '/ # midair$/d' "$ROOT/etc/hosts"
	[ -z "$ip" ] || echo "$ip $NODE # midair" >>"$ROOT/etc/hosts"
	mkdir -p "$ROOT/etc/cloud/cloud.cfg.d"
	echo 'preserve_hostname: true' >"$ROOT/etc/cloud/cloud.cfg.d/99-midair.cfg"
}

start_slurmd() {
	local n options="-D -N $NODE" drop=$ROOT/etc/systemd/system/slurmd.service.d
	[ -z "$CONTROLLER" ] || options="$options --conf-server $CONTROLLER"
	[ -z "$SLURMD_OPTIONS" ] || options="$options $SLURMD_OPTIONS"
	mkdir -p "$drop" "$ROOT/var/lib/slurm" "$ROOT/var/log/slurm" "$ROOT/var/spool/slurmd"
	# Debian's unit starts nothing without an /etc/slurm/slurm.conf.
	cat >"$drop/midair.conf" <<UNIT
[Unit]
ConditionPathExists=
[Service]
ExecStart=
ExecStart=$(command -v slurmd) $options
UNIT
	systemctl daemon-reload
	systemctl restart munge || fail "munge does not start: $(journalctl -u munge -n 2 --no-pager -o cat 2>/dev/null | tr '\n' ' ')"
	munge -n | unmunge >/dev/null || fail "munge does not work"
	say "starting slurmd $options"
	systemctl restart slurmd || fail "slurmd does not start: $(slurmd_says)"
	for ((n = 0; n < SETTLE; n++)); do
		sleep "$PAUSE"
		systemctl is-active --quiet slurmd || fail "slurmd has ended: $(slurmd_says)"
	done
}

slurmd_says() { journalctl -u slurmd -n 5 --no-pager -o cat 2>/dev/null | tr '\n' ' '; }

# install_self makes later boots do the same.
install_self() {
	local own=$ROOT/usr/local/sbin/midair-node
	[ "$0" -ef "$own" ] && return
	mkdir -p "${own%/*}" "$ROOT/etc/systemd/system"
	install -m 0755 "$0" "$own"
	cat >"$ROOT/etc/systemd/system/midair-node.service" <<UNIT
[Unit]
Description=make this instance a Slurm node of midair
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
ExecStart=${own#"$ROOT"}
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
UNIT
	systemctl daemon-reload
	systemctl --quiet enable midair-node.service
	# slurmd must not start by itself, before the node has its name.
	systemctl --quiet disable slurmd.service 2>/dev/null
}

main() {
	TMP=$(mktemp -d) || exit 1
	trap 'rm -rf "$TMP"' EXIT
	say "start"
	guard
	metadata
	packages
	install_self
	gpus
	munge_key
	keep_metadata
	wait_for_name
	own_name
	site_setup || fail "site_setup returned $?"
	start_slurmd
	systemctl stop midair-node-guard.timer
	say "$NODE is up after $SECONDS s"
}

[ "${BASH_SOURCE[0]}" != "$0" ] || main
