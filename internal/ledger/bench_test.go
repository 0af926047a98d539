package ledger

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBurst is what the ledger does when 500 jobs ask for 5000 nodes at
// once, from the request to the instances, in two transactions.
func BenchmarkBurst(b *testing.B) {
	var launches []Launch
	var intents []Intent
	var instances []Instance
	for j := range 500 {
		l := aLaunch(fmt.Sprintf("launch-%04d", j), j+1, 10, noon)
		in := anIntent(fmt.Sprintf("%064d", j), l)
		launches, intents, instances = append(launches, l), append(intents, in), append(instances, instancesOf(l, in.Token)...)
	}
	b.ReportAllocs()
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		l := fresh(b)
		before := cpu(b)
		b.StartTimer()
		update(b, l, func(tx *Tx) error {
			if err := tx.AddLaunches(launches); err != nil {
				return err
			}
			return tx.AddIntents(intents)
		})
		update(b, l, func(tx *Tx) error {
			if err := tx.AddInstances(instances); err != nil {
				return err
			}
			for _, in := range intents {
				if err := tx.CloseIntent(in.Token, noon); err != nil {
					return err
				}
			}
			return nil
		})
		b.StopTimer()
		spent += cpu(b) - before
		b.StartTimer()
	}
	b.ReportMetric(spent.Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkOpenLaunches reads 500 launches with 5000 nodes.
func BenchmarkOpenLaunches(b *testing.B) {
	l := fresh(b)
	update(b, l, func(tx *Tx) error {
		for j := range 500 {
			if err := tx.AddLaunches([]Launch{aLaunch(fmt.Sprintf("launch-%04d", j), j+1, 10, noon)}); err != nil {
				return err
			}
		}
		return nil
	})
	b.ReportAllocs()
	for b.Loop() {
		open, err := l.OpenLaunches(b.Context())
		require.NoError(b, err)
		require.Len(b, open, 500)
	}
}
