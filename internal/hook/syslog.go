package hook

import (
	"os"
	"strconv"
	"syscall"
)

// syslogSocket is where syslogd or journald listens.
const syslogSocket = "/dev/log"

// syslogPriority is facility daemon, severity notice (RFC 3164, 4.1.1).
const syslogPriority = 3<<3 | 5

// syslogSender sends lines to the local syslog. The standard library's would
// link package net into programs that must start in milliseconds, and would
// wait for ever for a syslogd that reads no more.
type syslogSender struct {
	fd  int
	tag string
}

// openSyslog connects to the socket without ever blocking.
func openSyslog(socket, tag string) (*syslogSender, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("open syslog", err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("connect to syslog "+socket, err)
	}
	return &syslogSender{fd: fd, tag: tag}, nil
}

// Write sends one line. syslogd adds the time and the host, which the header
// may leave out on the local socket.
func (s *syslogSender) Write(line []byte) (int, error) {
	head := "<" + strconv.Itoa(syslogPriority) + ">" + s.tag + "[" + strconv.Itoa(os.Getpid()) + "]: "
	if _, err := syscall.Write(s.fd, append([]byte(head), line...)); err != nil {
		return 0, os.NewSyscallError("write to syslog", err)
	}
	return len(line), nil
}
