// Command midair-cellinit is PID 1 of a cell: of a local instance, or of the
// private machine that the demo and the tests run in. midair starts it.
package main

import (
	"fmt"
	"os"

	"github.com/midair-hpc/midair/internal/cell"
)

func main() {
	if err := cell.RunInit(); err != nil {
		fmt.Fprintln(os.Stderr, "midair-cellinit:", err)
		os.Exit(1)
	}
}
