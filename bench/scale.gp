# Draws scale.tsv: keys a second by clients, one picture for each delay.
set terminal svg size 900,700 font 'sans,11' background '#ffffff'
set output out
set multiplot layout 2,2 title 'keys a second by clients (bench/scale, canned replies)'
set datafile separator '\t'
set logscale xy
set xlabel 'clients'
set ylabel 'keys a second'
set key bottom right font ',9'
set grid
do for [delay in '0 1 5 20'] {
    set title sprintf('replies after %s ms', delay)
    plot for [kind in 'key once duplicate cached batch guard unique relay powertools'] file \
        using (strcol(1) eq kind && strcol(2) eq delay ? $3 : 1/0):4 with linespoints title kind
}
unset multiplot
