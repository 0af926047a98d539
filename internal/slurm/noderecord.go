package slurm

import (
	"regexp"
	"strconv"
	"strings"
)

// A record of `scontrol -o show node` is Key=value pairs in an order that has
// not changed from 22.05 to 26.05 (slurm_sprint_node_table): versions add and
// drop keys, but NodeName is first, State comes before all text that people
// write, and that text (Reason, Comment, Extra) is at the end. Text is printed
// as it is, so a comment may hold anything that looks like a key, or a line
// break.

// textKeys are the keys whose values may hold spaces, with the keys that may
// follow, in order. The value ends where the first of them begins.
var textKeys = map[string][]string{
	"OS":           {"RealMemory"},
	"Reason":       tailKeys[1:],
	"Comment":      tailKeys[2:],
	"Extra":        tailKeys[3:],
	"InstanceId":   tailKeys[4:],
	"InstanceType": tailKeys[5:],
	"Topology":     tailKeys[9:],
	"Parameters":   nil,
}

// tailKeys are the keys from the first text of people's on, in Slurm's order.
var tailKeys = []string{
	"Reason", "Comment", "Extra", "InstanceId", "InstanceType", // 23.11
	"ReservationName",                       // 23.02
	"TLSCertTokenSet", "TLSCertLastRenewal", // 25.05
	"Topology",   // 25.05
	"Parameters", // 25.11
}

// splitNodes cuts the output of `scontrol -o show node` into records. A line
// that does not begin as a record does is the rest of a text with a line break
// in it.
func splitNodes(out []byte) []string {
	text := string(out)
	var records []string
	begin, at := -1, 0
	end := func() {
		if begin >= 0 {
			records = append(records, strings.TrimRight(text[begin:at], "\n"))
		}
	}
	for line := range strings.Lines(text) {
		switch bare := strings.TrimRight(line, "\n"); {
		case beginsNode(bare):
			end()
			begin = at
		case unknownNode(bare):
			end()
			begin = -1
		}
		at += len(line)
	}
	end()
	return records
}

// unknownNode reports whether a line is scontrol's word on a name it does not
// know, which it prints among the records.
func unknownNode(line string) bool {
	return strings.HasPrefix(line, "Node ") && strings.HasSuffix(line, " not found")
}

// beginsNode reports whether a line begins as a record does: NodeName, perhaps
// Arch and CpuBind, then CoresPerSocket, and further on the keys that every
// version prints.
func beginsNode(line string) bool {
	rest, ok := strings.CutPrefix(line, "NodeName=")
	if !ok {
		return false
	}
	name, rest, _ := strings.Cut(rest, " ")
	if name == "" {
		return false
	}
	for _, optional := range []string{"Arch=", "CpuBind="} {
		if strings.HasPrefix(rest, optional) {
			_, rest, _ = strings.Cut(rest, " ")
		}
	}
	if !strings.HasPrefix(rest, "CoresPerSocket=") {
		return false
	}
	for _, key := range []string{" CPUTot=", " RealMemory=", " State=", " ThreadsPerCore="} {
		if _, rest, ok = strings.Cut(rest, key); !ok {
			return false
		}
	}
	return true
}

// nodeFields reads a record's pairs from left to right. A key counts where it
// comes first, so what stands in a text cannot replace the State before it.
func nodeFields(record string) map[string]string {
	fields := map[string]string{}
	rest := record
	for {
		rest = strings.TrimLeft(rest, " \n")
		if rest == "" {
			return fields
		}
		key, value, ok := cutKey(rest)
		if !ok {
			// A value with a space that no version known had; go on behind it.
			_, rest, _ = strings.Cut(rest, " ")
			continue
		}
		end := strings.IndexByte(value, ' ')
		if followers, text := textKeys[key]; text {
			end = textEnd(key, value, followers)
		}
		if end < 0 {
			end = len(value)
		}
		if _, seen := fields[key]; !seen {
			fields[key] = value[:end]
		}
		rest = value[end:]
	}
}

// cutKey cuts "Key=value …" at its first = sign.
func cutKey(s string) (key, value string, ok bool) {
	i := strings.IndexAny(s, "= \n")
	if i < 1 || s[i] != '=' {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// textEnd finds where a text ends: where one of the keys that may follow
// begins. A Reason carries Slurm's own stamp at the end of its first line, so
// it cannot end before.
func textEnd(key, value string, followers []string) int {
	from := 0
	if key == "Reason" {
		if _, end := findStamp(value, followers); end > 0 {
			from = end
		}
		if strings.HasPrefix(value[from:], reasonBreak) {
			from += len(reasonBreak)
		}
	}
	end := -1
	for _, f := range followers {
		if i := strings.Index(value[from:], " "+f+"="); i >= 0 && (end < 0 || from+i < end) {
			end = from + i
		}
	}
	return end
}

// reasonBreak is how -o prints a line break in a reason.
const reasonBreak = "        "

// stamp is the " [user@time]" that Slurm puts behind the first line of a
// reason.
var stamp = regexp.MustCompile(` \[[^\s\[\]]+@(?:\d{9,11}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown)\]`)

// findStamp finds a reason's stamp: the first that is followed by a key, by
// the reason's next line or by nothing. An end of 0: there is none.
func findStamp(value string, followers []string) (begin, end int) {
	for _, at := range stamp.FindAllStringIndex(value, -1) {
		after := value[at[1]:]
		if strings.TrimSpace(after) == "" || strings.HasPrefix(after, reasonBreak) {
			return at[0], at[1]
		}
		for _, f := range followers {
			if strings.HasPrefix(after, " "+f+"=") {
				return at[0], at[1]
			}
		}
	}
	return 0, 0
}

// parseNodes reads the output of `scontrol -o show node`.
func parseNodes(out []byte) []Node {
	records := splitNodes(out)
	nodes := make([]Node, 0, len(records))
	for _, r := range records {
		nodes = append(nodes, newNode(nodeFields(r)))
	}
	return nodes
}

func newNode(f map[string]string) Node {
	return Node{
		Name:       f["NodeName"],
		Addr:       null(f["NodeAddr"]),
		HostName:   null(f["NodeHostName"]),
		State:      ParseStates(f["State"]),
		Reason:     reason(f["Reason"]),
		Comment:    strings.TrimSpace(null(f["Comment"])),
		Partitions: list(f["Partitions"]),
		Features:   list(f["AvailableFeatures"]),
		Gres:       null(f["Gres"]),
		CPUs:       number(f["CPUTot"]),
		MemoryMiB:  number(f["RealMemory"]),
		BootTime:   parseTime(f["BootTime"]),
	}
}

// reason takes Slurm's stamp out of a reason.
func reason(text string) string {
	if begin, end := findStamp(text, nil); end > 0 {
		text = text[:begin] + text[end:]
	}
	return strings.TrimSpace(strings.ReplaceAll(null(text), reasonBreak, " "))
}

// list reads a comma list; nil for none. Commas in brackets or parentheses
// belong to a name.
func list(text string) []string {
	if text = null(text); text == "" {
		return nil
	}
	var names []string
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case ',':
			if depth <= 0 {
				names = append(names, text[from:i])
				from = i + 1
			}
		}
	}
	return append(names, text[from:])
}

// number reads a count; 0 for N/A and the like.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
