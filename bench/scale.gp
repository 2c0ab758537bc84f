# Draws scale.tsv: keys a second by clients, one picture for each of the delays.
set terminal svg size 900,350 * ((words(delays) + 1) / 2) font 'sans,11' background '#ffffff'
set output out
set multiplot layout (words(delays) + 1) / 2,2 title 'keys a second by clients (bench/scale, canned replies)'
set datafile separator '\t'
set logscale xy
set xlabel 'clients'
set ylabel 'keys a second'
set key outside right center font ',9'
set grid
do for [delay in delays] {
    set title sprintf('replies after %s ms', delay)
    plot for [kind in 'key once duplicate cached batch guard unique relay powertools'] \
        sprintf("< awk '$1 == \"%s\" && $2 == %s' %s", kind, delay, file) using 3:4 with linespoints title kind
}
unset multiplot
